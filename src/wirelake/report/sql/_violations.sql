-- How many violations there are.
select (select count(*) from gold_violations) + (select count(*) from silver_quarantine) as total
