-- Which bytes were no message, by which rule, and how do they look?
-- docs/rules.md lists the rules. Rows with the rule gap stand for bytes that were never captured, and have none.
select protocol, rule, count(*) as ranges, sum(length) as bytes,
       any_value(detail) as for_example, any_value(hex(substring(bytes, 1, 24))) as first_bytes
from silver_quarantine
group by protocol, rule
order by bytes desc, rule
limit 20
