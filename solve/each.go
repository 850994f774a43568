package solve

// Each has independent work done, perhaps side by side.
type Each interface {
	// Each calls do with every number from 0 to n-1 and returns when all calls have
	// returned. Calls may run at the same time and in any order, so that what one call
	// writes no other may read or write. The result is then the same however many run at
	// a time. A call that panics makes Each panic.
	Each(n int, do func(i int))
}

// Serial does one piece of work after another, in order.
type Serial struct{}

// Each implements the interface of that name.
func (Serial) Each(n int, do func(i int)) {
	for i := range n {
		do(i)
	}
}
