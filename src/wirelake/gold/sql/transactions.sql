-- Transactions over all sensors: what each sensor saw of a transaction, branch by branch, put together
with seen as (
    select sensor, protocol, xid_format, gtrid, branch.bqual as bqual, branch.calls as calls,
           branch.outcome as outcome,
           coalesce(branch.resource, max(branch.resource) over (
               partition by protocol, xid_format, gtrid, branch.bqual)) as resource
    from gold_transactions cross join lateral unnest(branches) as each_branch(branch)),
by_sensor as (
    select sensor, protocol, xid_format, gtrid, bqual, resource, cast(sum(calls) as bigint) as calls,
           case when bool_or(outcome = 'in_doubt') then 'in_doubt'
                when bool_or(outcome = 'rolled_back') then 'rolled_back'
                when bool_or(outcome = 'committed') then 'committed' else 'read_only' end as outcome
    from seen group by sensor, protocol, xid_format, gtrid, bqual, resource),
united as (
    select protocol, xid_format, gtrid, bqual, resource, max(calls) as calls,
           case when bool_or(outcome = 'committed') and bool_or(outcome = 'rolled_back') then 'contradictory'
                when bool_or(outcome = 'rolled_back') then 'rolled_back'
                when bool_or(outcome = 'committed') then 'committed'
                when bool_or(outcome = 'read_only') then 'read_only' else 'in_doubt' end as outcome,
           array_sort(array_agg(sensor)) as sensors
    from by_sensor group by protocol, xid_format, gtrid, bqual, resource),
decided as (
    select protocol, xid_format, gtrid, cast(sum(calls) as bigint) as calls,
           case when bool_or(outcome = 'contradictory') then 'contradictory'
                when bool_or(outcome = 'in_doubt') then 'in_doubt'
                when bool_or(outcome = 'rolled_back') then 'rolled_back'
                when bool_or(outcome = 'committed') then 'committed' else 'read_only' end as outcome,
           array_sort(array_agg(struct_pack(bqual, resource, calls, outcome, sensors))) as branches
    from united group by protocol, xid_format, gtrid),
times as (
    select protocol, xid_format, gtrid, min(first_ts) as first_ts, max(ended_ts) as ended_ts, max(last_ts) as last_ts,
           array_sort(array_distinct(flatten(array_agg(executions)))) as executions,
           array_sort(array_agg(distinct sensor)) as sensors
    from gold_transactions group by protocol, xid_format, gtrid)
select protocol, xid_format, gtrid, sensors, first_ts,
       case when outcome <> 'in_doubt' then ended_ts end as ended_ts, last_ts,
       case when outcome <> 'in_doubt' then epoch_us(ended_ts) - epoch_us(first_ts) end as duration_us,
       outcome, calls, executions, branches
from times join decided using (protocol, xid_format, gtrid)
