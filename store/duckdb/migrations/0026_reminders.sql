-- The browsers of participants that are reminded when their session speaks by itself.

ALTER TABLE participants ADD COLUMN push JSON;
COMMENT ON COLUMN participants.push IS 'Where and with which keys the browser is reminded: endpoint, p256dh, auth; null for not';
