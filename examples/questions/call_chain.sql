-- How did one chain of calls go, from the first to the last?
-- Messages of casual carry the chain they belong to (execution), across domains. This takes the longest chain that one
-- sensor saw; to follow another one, replace the inner select by its sensor and id.
select request_ts, session.client, session.server, message, address, outcome,
       round(latency_us / 1000, 3) as latency_ms, execution
from gold_exchanges
left join gold_sessions as session using (sensor, connection)
where (sensor, execution) in (select sensor, execution from gold_exchanges where execution is not null
                              group by sensor, execution order by count(*) desc, sensor, execution limit 1)
order by request_ts, request_offset
limit 40
