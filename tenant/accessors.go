package tenant

import "time"

// HalfLife is the time in which usage loses half its weight; 0: it never does.
func (t *Tree) HalfLife() time.Duration { return t.halfLife }
