-- Handshakes and ends of connections
select coalesce(protocol, 'unknown') as protocol, handshake, coalesce(ended, 'not seen') as ended, count(*) as "count"
from gold_sessions group by all
union all
select coalesce(protocol, 'unknown'), 'unknown', 'open', count(*) from gold_open where kind = 'session' group by all
order by protocol, handshake, ended
