-- Broken rules: by valid messages sent out of sequence (state), by undecodable bytes (bytes)
select 'state' as source, protocol, rule, count(*) as "count", sum(length)::bigint as bytes
from gold_violations group by all
union all
select 'bytes', coalesce(protocol, 'unknown'), rule, count(*), sum(length)::bigint
from silver_quarantine group by all
order by "count" desc, source, protocol, rule
