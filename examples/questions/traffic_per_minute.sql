-- How much traffic is there in each minute, protocol by protocol?
select date_trunc('minute', ts) as minute, protocol, count(*) as messages, sum(length) as bytes,
       count_if(kind = 'request') as requests, count_if(kind = 'event') as events,
       count(distinct concat_ws(' ', sensor, connection)) as connections
from silver_messages
group by minute, protocol
order by minute, protocol
limit 40
