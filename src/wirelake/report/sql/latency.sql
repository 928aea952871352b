-- Latency over time
select epoch_us(request_ts) // {bucket_us} * {bucket_us} as bucket_us, coalesce(protocol, 'all') as protocol,
       count(*) as requests, quantile_disc(latency_us, 0.50) as p50_us,
       quantile_disc(latency_us, 0.95) as p95_us, quantile_disc(latency_us, 0.99) as p99_us
from gold_exchanges
where request_ts is not null and latency_us is not null
group by grouping sets ((bucket_us, protocol), (bucket_us))
order by bucket_us, protocol
