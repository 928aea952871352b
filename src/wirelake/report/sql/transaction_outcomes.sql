-- Outcomes of transactions
select outcome, count(*) as "count" from gold_transactions group by outcome
union all
select 'open', count(*) from gold_open where kind = 'transaction' having count(*) > 0
order by outcome
