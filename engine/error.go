package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
)

// PolicyError is an error that the policy of a run has caused. The world and
// the state are as they were before the policy decided, unless the error came
// while its plan was carried out.
type PolicyError struct {
	Policy string        // name and settings, as Config.PolicyName or SetPolicy gave them
	At     time.Duration // since the start of the run
	Err    error         // the cause; a *PanicError if the policy panicked
}

// ErrOverdue is the cause of a PolicyError when a policy has not decided within
// Config.Budget. Nothing can stop it: it goes on with the engine and the state, and these
// must not be used any more.
var ErrOverdue = errors.New("it has not decided")

// Error names the policy and the moment.
func (e *PolicyError) Error() string {
	return fmt.Sprintf("policy %s at %s: %v", e.Policy, unit.Human(e.At), e.Err)
}

// Unwrap is the cause of the error.
func (e *PolicyError) Unwrap() error { return e.Err }

// PanicError is the panic of a policy: a mistake of its author.
type PanicError struct {
	Value any
	Stack []byte // where it happened
}

// Error says what happened, without the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("it panicked: %v", e.Value) }

// mistake is an error that the policy has caused at the present moment.
func (e *Engine) mistake(err error) error {
	return &PolicyError{Policy: e.cfg.PolicyName, At: e.state.Now, Err: err}
}
