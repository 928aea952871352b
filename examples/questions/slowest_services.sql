-- Which addresses are slow, and in which minutes?
-- p95_us is exact: 95 % of the exchanges of that minute were not slower. Requests without a reply have no latency.
-- The view addresses has the same across all sensors.
select sensor, minute, protocol, address, requests, round(p50_us / 1000, 1) as p50_ms, round(p95_us / 1000, 1) as p95_ms,
       round(max_us / 1000, 1) as max_ms
from gold_addresses
where requests >= 5 and p95_us is not null
order by p95_us desc, address
limit 20
