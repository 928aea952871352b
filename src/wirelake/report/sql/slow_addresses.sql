-- Slowest addresses, by the 95th percentile
select protocol, address, count(*) as requests, count(*) filter (outcome = 'error') as errors,
       count(*) filter (outcome = 'timeout') as timeouts,
       count(*) filter (outcome in ('error', 'timeout')) / count(*) as error_rate,
       quantile_disc(latency_us, 0.50) as p50_us, quantile_disc(latency_us, 0.95) as p95_us,
       quantile_disc(latency_us, 0.99) as p99_us, max(latency_us) as max_us
from gold_exchanges
where address is not null
group by protocol, address
having count(latency_us) > 0
order by p95_us desc, requests desc, protocol, address
limit 50
