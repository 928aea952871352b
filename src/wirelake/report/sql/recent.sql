-- The last minute
select messages, message_bytes, requests, ok, errors, timeouts, unanswered, p50_us, p95_us, max_us, violations,
       quarantined_bytes, open_requests, oldest_open_us, open_sessions
from (select count(*) as messages, coalesce(sum(length), 0)::bigint as message_bytes
      from silver_messages where ts >= make_timestamptz({minute_us})),
     (select count(*) as requests, count(*) filter (outcome = 'ok') as ok,
             count(*) filter (outcome = 'error') as errors, count(*) filter (outcome = 'timeout') as timeouts,
             count(*) filter (outcome = 'unanswered') as unanswered,
             quantile_disc(latency_us, 0.50) as p50_us, quantile_disc(latency_us, 0.95) as p95_us,
             max(latency_us) as max_us
      from gold_exchanges where request_ts >= make_timestamptz({minute_us})),
     (select count(*) as violations from gold_violations where ts >= make_timestamptz({minute_us})),
     (select coalesce(sum(length) filter (rule <> 'gap'), 0)::bigint as quarantined_bytes
      from silver_quarantine where ts >= make_timestamptz({minute_us})),
     (select count(*) filter (kind = 'request') as open_requests, count(*) filter (kind = 'session') as open_sessions,
             {until_us} - min(epoch_us(since_ts)) filter (kind = 'request') as oldest_open_us
      from gold_open)
