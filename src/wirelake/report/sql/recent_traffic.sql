-- Messages in the last minutes
select epoch_us(ts) // {step_us} * {step_us} as bucket_us, protocol, count(*) as "count"
from silver_messages
where ts >= make_timestamptz({since_us})
group by all
order by bucket_us, protocol
