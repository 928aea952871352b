-- Which addresses reply with errors, and with which?
-- status is what the reply carries on the wire: the XATMI code of casual, the status of dsa, the error code of mb.
select protocol, address, message, status, count(*) as errors,
       min(request_ts) as first_seen, max(request_ts) as last_seen
from gold_exchanges
where outcome = 'error'
group by protocol, address, message, status
order by errors desc, protocol, address
limit 20
