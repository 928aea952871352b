-- Undecodable bytes over time
select epoch_us(ts) // {bucket_us} * {bucket_us} as bucket_us, coalesce(protocol, 'unknown') as protocol,
       sum(length)::bigint as bytes, count(*) as ranges
from silver_quarantine
where ts is not null and rule <> 'gap'
group by all
order by bucket_us, protocol
