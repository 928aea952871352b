-- Errors, timeouts and unanswered requests by address, with the newest as an example
select protocol, address, outcome, status, count(*) as "count", max(epoch_us(request_ts)) as last_us,
       max({'us': coalesce(epoch_us(request_ts), 0), 'id': id}).id as conversation
from (select *, 'x:' || connection || ':' || if(direction = 'to_server', 's', 'c') || ':' || request_offset{at} as id
      from gold_exchanges)
where outcome not in ('ok', 'no_reply_wanted')
group by protocol, address, outcome, status
order by "count" desc, protocol, address, outcome, status
limit 50
