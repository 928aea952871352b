-- Which sensors are there, from when to when, and how much did each see?
-- A message that two sensors saw counts for both.
select sensor, count(distinct connection) as connections, count(*) as messages, sum(length) as bytes,
       min(ts) as first_seen, max(ts) as last_seen
from silver_messages
group by sensor
order by sensor
limit 40
