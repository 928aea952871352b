-- Which bytes were quarantined, by which rule, and what do they look like?
-- docs/rules.md lists the rules. Rows with the rule gap stand for bytes that were never captured, and have no bytes.
select protocol, rule, count(*) as ranges, sum(length) as bytes,
       min(detail) as for_example, min(left(hex(bytes), 48)) as first_bytes
from silver_quarantine
group by protocol, rule
order by bytes desc, rule
limit 20
