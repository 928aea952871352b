-- Totals
select messages, connections, bytes_in, bytes_decoded, bytes_quarantined, bytes_pending, bytes_missing,
       requests, ok, errors, timeouts, unanswered, no_reply_wanted, open_requests, transactions, committed, rolled_back,
       read_only, in_doubt, open_transactions, sessions, open_sessions, violations, quarantined_ranges,
       p50_us, p95_us, p99_us, max_us, first_us, last_us, passed_on
from (select coalesce(sum(messages), 0)::bigint as messages, count(distinct (sensor, connection)) as connections,
             coalesce(sum(bytes_in), 0)::bigint as bytes_in, coalesce(sum(bytes_decoded), 0)::bigint as bytes_decoded,
             coalesce(sum(bytes_quarantined), 0)::bigint as bytes_quarantined,
             coalesce(sum(bytes_pending), 0)::bigint as bytes_pending,
             coalesce(sum(bytes_missing), 0)::bigint as bytes_missing
      from accounting),
     (select count(*) as requests, count(*) filter (outcome = 'ok') as ok,
             count(*) filter (outcome = 'error') as errors, count(*) filter (outcome = 'timeout') as timeouts,
             count(*) filter (outcome = 'unanswered') as unanswered,
             count(*) filter (outcome = 'no_reply_wanted') as no_reply_wanted, count(other_connection) as passed_on,
             quantile_disc(latency_us, 0.50) as p50_us, quantile_disc(latency_us, 0.95) as p95_us,
             quantile_disc(latency_us, 0.99) as p99_us, max(latency_us) as max_us
      from gold_exchanges),
     (select count(*) as transactions, count(*) filter (outcome = 'committed') as committed,
             count(*) filter (outcome = 'rolled_back') as rolled_back,
             count(*) filter (outcome = 'read_only') as read_only,
             count(*) filter (outcome = 'in_doubt') as in_doubt
      from gold_transactions),
     (select count(*) filter (kind = 'request') as open_requests, count(*) filter (kind = 'session') as open_sessions,
             count(*) filter (kind = 'transaction') as open_transactions
      from gold_open),
     (select count(*) as sessions from gold_sessions),
     (select count(*) as violations from gold_violations),
     (select count(*) as quarantined_ranges from silver_quarantine where rule <> 'gap'),
     ({span})
