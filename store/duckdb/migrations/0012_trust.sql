-- The trust level of what users and models say is named by its origin, as the others are: `conversation`, was `told`.

UPDATE memory_unit_rows SET trust = 'conversation' WHERE trust = 'told';
COMMENT ON COLUMN memory_unit_rows.trust IS 'own: texts of the script or application; conversation: of users or models; foreign: imported or external';
COMMENT ON COLUMN memory_units.trust IS 'own: texts of the script or application; conversation: of users or models; foreign: imported or external';

-- Only notes have the level in their event: a recalled unit with this level leaves it out.

UPDATE turns SET events = to_json(list_transform(from_json(events, '["JSON"]'), lambda event:
    if(event->>'kind' = 'remembered' AND event->>'$.data.trust' = 'told',
        json_merge_patch(event, '{"data": {"trust": "conversation"}}'), event)))
WHERE contains(events, '"trust":"told"');
