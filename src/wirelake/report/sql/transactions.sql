-- Transactions: in doubt first, then open, then rolled back, then the slowest
select sensor, gtrid, outcome, epoch_us(first_ts) as first_us, duration_us, calls, len(branches) as branches, prepare_us,
       commit_us, connections, 't:' || xid_format || ':' || gtrid{at} as conversation
from gold_transactions
union all
select sensor, correlation, 'open', epoch_us(since_ts), null, null, null, null, null, null, 't::' || correlation{at}
from gold_open
where kind = 'transaction'
order by case outcome when 'in_doubt' then 0 when 'open' then 1 when 'rolled_back' then 2 else 3 end,
         duration_us desc nulls last, first_us, gtrid
limit 200
