//go:build !unix

package foreign

// ownAlone looks at nothing where files have no owner in the way of Unix.
func ownAlone([]string) error { return nil }
