-- Broken rules: by good messages at the wrong moment (state), by bytes that are no message (bytes)
select 'state' as source, protocol, rule, count(*) as "count", sum(length)::bigint as bytes
from gold_violations group by all
union all
select 'bytes', coalesce(protocol, 'unknown'), rule, count(*), sum(length)::bigint
from silver_quarantine group by all
order by "count" desc, source, protocol, rule
