-- Outcomes of requests, by request time
select epoch_us(request_ts) // {bucket_us} * {bucket_us} as bucket_us, count(*) filter (outcome = 'ok') as ok,
       count(*) filter (outcome = 'error') as errors, count(*) filter (outcome = 'timeout') as timeouts,
       count(*) filter (outcome = 'unanswered') as unanswered,
       count(*) filter (outcome = 'no_reply_wanted') as no_reply_wanted
from gold_exchanges
where request_ts is not null
group by all
order by bucket_us
