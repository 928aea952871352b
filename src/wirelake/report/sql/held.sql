-- Conversations in the lake; the page fills in how many of them it has
select 'violation' as why, 0 as held, (select count(*) from gold_violations)
                                    + (select count(*) from silver_quarantine) as "of"
union all select 'in_doubt', 0, count(*) from gold_transactions where outcome = 'in_doubt'
union all select 'open', 0, count(*) from gold_open where kind = 'transaction'
union all select 'slow', 0, count(latency_us) from gold_exchanges
union all select 'failed', 0, count(*) from gold_exchanges where outcome not in ('ok', 'no_reply_wanted')
union all select 'sample', 0, (select count(distinct (sensor, connection)) from accounting)
                            + (select count(*) from gold_exchanges) + (select count(*) from gold_transactions)
order by list_position(['violation', 'in_doubt', 'open', 'slow', 'failed', 'sample'], why)
