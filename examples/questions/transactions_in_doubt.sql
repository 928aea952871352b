-- Which transactions were left in doubt, and by which branch?
-- A vote of 0 means that the branch is prepared and waits for a decision. Those that may still end are in gold_open.
-- Another sensor may have seen the end: the view transactions puts all of them together.
select doubtful.sensor, gtrid, doubtful.first_ts, branch.bqual, session.server, branch.resource, branch.calls, branch.vote,
       branch.decision, branch.result, branch.outcome
from (select *, explode(branches) as branch from gold_transactions where outcome = 'in_doubt') as doubtful
left join gold_sessions as session
    on session.sensor = doubtful.sensor and session.connection = branch.connection
order by doubtful.first_ts, gtrid, branch.bqual
limit 40
