"""How things move: shapes, bodies, what drives them, contacts, joints, and one step of all of it."""
