package api

import "fmt"

// Error is a refusal, fit for a user's eyes.
type Error struct {
	Kind ErrorKind
	Text string
}

// ErrorKind is why something was refused. Each has an HTTP status and an exit
// code of norn.
type ErrorKind uint8

// The kinds of refusals.
const (
	Invalid     ErrorKind = iota // 400, exit 2: the request makes no sense
	Unknown                      // 404, exit 1: there is no such job, device or tenant
	Denied                       // 403, exit 1: the caller has no right to it
	Conflict                     // 409, exit 1: it cannot be as things stand, as with a job that has ended
	Unavailable                  // 503, exit 1: not now: the daemon starts, stops, or its disk is full
	NoToken                      // 401, exit 1: who calls is not known
)

// Error implements error.
func (e *Error) Error() string { return e.Text }

// Refuse makes a refusal.
func Refuse(k ErrorKind, format string, args ...any) *Error {
	return &Error{Kind: k, Text: fmt.Sprintf(format, args...)}
}
