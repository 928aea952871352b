-- Replies by time and latency; bands begin at 1, 2 and 5 times a power of ten
select bucket_us, digits * case when latency_us >= 5 * digits then 5 when latency_us >= 2 * digits then 2
                                when latency_us >= digits then 1 else 0 end as band_us, count(*) as "count"
from (select epoch_us(request_ts) // {bucket_us} * {bucket_us} as bucket_us, latency_us,
             (10 ** (length(latency_us::varchar) - 1))::bigint as digits
      from gold_exchanges
      where request_ts is not null and latency_us is not null)
group by all
order by bucket_us, band_us
