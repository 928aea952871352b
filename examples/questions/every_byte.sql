-- Is every captured byte accounted for, and where is something missing?
select protocol, count(*) as streams, sum(messages) as messages, sum(bytes_in) as bytes_in,
       sum(bytes_decoded) as decoded, sum(bytes_quarantined) as quarantined, sum(bytes_pending) as pending,
       sum(bytes_missing) as missing,
       sum(bytes_in) = sum(bytes_decoded) + sum(bytes_quarantined) + sum(bytes_pending) as adds_up
from accounting
group by protocol
order by protocol
