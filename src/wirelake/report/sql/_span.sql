-- First and last time in the lake
select min(us) as first_us, max(us) as last_us
from (select unnest([epoch_us(first_ts), epoch_us(last_ts)]) as us from gold_sessions
      union all select unnest([epoch_us(request_ts), epoch_us(reply_ts)]) from gold_exchanges
      union all select unnest([epoch_us(first_ts), epoch_us(last_ts)]) from gold_transactions
      union all select epoch_us(ts) from gold_violations
      union all select epoch_us(ts) from silver_quarantine
      union all select epoch_us(since_ts) from gold_open)
