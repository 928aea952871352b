-- Messages to addresses over time (replies have none)
select epoch_us(minute) // {bucket_us} * {bucket_us} as bucket_us, protocol, sum(messages)::bigint as "count"
from gold_addresses
group by all
order by bucket_us, protocol
