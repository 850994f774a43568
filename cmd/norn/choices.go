package main

import "github.com/norn-scheduler/norn/experiment"

// defaultPolicies are compared when none are named.
var defaultPolicies = []string{"fifo", "srtf", "tiresias"}

// choices turns --policy and --set into the policies to compare.
func choices(policies, settings []string) ([]experiment.Choice, error) {
	if len(policies) == 0 {
		policies = defaultPolicies
	}
	var out []experiment.Choice
	for _, list := range policies {
		some, err := experiment.ParseChoices(list)
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
	out, err := experiment.Variants(out)
	if err != nil {
		return nil, misused("%w", err)
	}
	if err := experiment.CheckChoices(out); err != nil {
		return nil, misused("%w", err)
	}
	return out, nil
}
