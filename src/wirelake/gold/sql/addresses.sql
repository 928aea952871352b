-- Addresses over all sensors by minute: counts add up what each saw, percentiles are those of all latencies
with counted as (
    select protocol, address, minute, date, array_sort(array_agg(distinct sensor)) as sensors,
           cast(sum(messages) as bigint) as messages, cast(sum(bytes) as bigint) as bytes,
           cast(sum(requests) as bigint) as requests, cast(sum(errors) as bigint) as errors,
           cast(sum(timeouts) as bigint) as timeouts, cast(sum(fan_out) as bigint) as fan_out
    from gold_addresses group by protocol, address, minute, date),
timed as (
    select protocol, address, date_trunc('minute', request_ts) as minute, date,
           cast(percentile_disc(0.50) within group (order by latency_us) as bigint) as p50_us,
           cast(percentile_disc(0.95) within group (order by latency_us) as bigint) as p95_us,
           cast(percentile_disc(0.99) within group (order by latency_us) as bigint) as p99_us,
           max(latency_us) as max_us
    from gold_exchanges
    where latency_us is not null
    group by protocol, address, date_trunc('minute', request_ts), date)
select protocol, address, minute, date, sensors, messages, bytes, requests, errors, timeouts,
       (errors + timeouts) / nullif(requests, 0) as error_rate, fan_out, p50_us, p95_us, p99_us, max_us
from counted left join timed using (protocol, address, minute, date)
