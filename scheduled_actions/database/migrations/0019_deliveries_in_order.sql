-- A page of deliveries is read without a look at all other actions. Those cost this index nothing; its entries are few beside
-- what a delivery costs.
create index scheduled_actions_deliveries on scheduled_actions (id) where action_type = 'webhook:send';
