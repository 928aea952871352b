-- Protocol by protocol
select protocol, connections, messages, bytes_decoded, bytes_quarantined, coalesce(requests, 0) as requests,
       coalesce(errors, 0) as errors, coalesce(timeouts, 0) as timeouts, coalesce(unanswered, 0) as unanswered,
       coalesce(violations, 0) as violations, p50_us, p95_us, p99_us
from (select coalesce(protocol, 'unknown') as protocol, count(distinct (sensor, connection)) as connections,
             sum(messages)::bigint as messages, sum(bytes_decoded)::bigint as bytes_decoded,
             sum(bytes_quarantined)::bigint as bytes_quarantined
      from accounting group by all)
left join (select protocol, count(*) as requests, count(*) filter (outcome = 'error') as errors,
                  count(*) filter (outcome = 'timeout') as timeouts,
                  count(*) filter (outcome = 'unanswered') as unanswered,
                  quantile_disc(latency_us, 0.50) as p50_us, quantile_disc(latency_us, 0.95) as p95_us,
                  quantile_disc(latency_us, 0.99) as p99_us
           from gold_exchanges group by protocol) using (protocol)
left join (select protocol, count(*) as violations from gold_violations group by protocol) using (protocol)
order by protocol
