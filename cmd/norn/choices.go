package main

import (
	"io"
	"sync"

	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/experiment/foreign"
	"github.com/norn-scheduler/norn/policy"
)

// defaultPolicies are compared when none are named.
var defaultPolicies = []string{"fifo", "srtf", "tiresias"}

// simulated turns --policy and --set into the policies to simulate, also those that are
// programs of their own. Only the command line may name a program: what stands in a log or
// a summary is looked up in the table alone.
func simulated(policies, settings []string) ([]experiment.Choice, error) {
	return choices(policies, settings, foreign.Entry())
}

// parsed reads --policy and --set. Whether there are such policies is looked up by the caller.
func parsed(policies, settings []string, own ...policy.Entry) (out []experiment.Choice, err error) {
	for _, text := range policies {
		list, err := experiment.ListOf(text)
		if err != nil {
			return nil, misused("--policy %w", err)
		}
		some, err := experiment.ParseChoices(list, own...)
		if err != nil {
			return nil, misused("--policy %w", err)
		}
		out = append(out, some...)
	}
	for _, s := range settings {
		if err := experiment.Assign(out, s); err != nil {
			return nil, misused("--set %w", err)
		}
	}
	return out, nil
}

// choices turns --policy and --set into policies of the table and of own.
func choices(policies, settings []string, own ...policy.Entry) ([]experiment.Choice, error) {
	if len(policies) == 0 {
		policies = defaultPolicies
	}
	out, err := parsed(policies, settings, own...)
	if err != nil {
		return nil, err
	}
	out, err = experiment.Variants(out)
	if err != nil {
		return nil, misused("%w", err)
	}
	if err := experiment.CheckChoices(out); err != nil {
		return nil, misused("%w", err)
	}
	return out, nil
}

// oneByOne is a writer to which several policies that are programs write.
type oneByOne struct {
	guard sync.Mutex
	to    io.Writer
}

// Write implements io.Writer.
func (w *oneByOne) Write(text []byte) (int, error) {
	w.guard.Lock()
	defer w.guard.Unlock()
	return w.to.Write(text)
}
