-- Requests over time
select epoch_us(request_ts) // {bucket_us} * {bucket_us} as bucket_us, protocol, count(*) as "count"
from gold_exchanges
where request_ts is not null
group by all
order by bucket_us, protocol
