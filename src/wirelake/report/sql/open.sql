-- Undecided requests, sessions and transactions
select kind, protocol, count(*) as "count", min(epoch_us(since_ts)) as oldest_us
from gold_open
group by all
order by kind, protocol
