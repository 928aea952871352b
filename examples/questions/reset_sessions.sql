-- Which connections were reset, or ended with something unfinished?
select session.sensor, session.protocol, session.client, session.server, session.ended, session.ended_ts, session.handshake,
       round(session.duration_us / 1e6, 3) as seconds,
       count(exchange.connection) as unanswered, min(exchange.address) as for_example
from gold_sessions as session
left join gold_exchanges as exchange
    on exchange.sensor = session.sensor and exchange.connection = session.connection
    and exchange.outcome = 'unanswered'
group by all
having session.ended = 'reset' or unanswered > 0
order by session.ended desc, unanswered desc, session.client
limit 20
