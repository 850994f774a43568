package main

import (
	"strings"

	"github.com/norn-scheduler/norn/param"
	"github.com/norn-scheduler/norn/run"
)

// defaultPolicies are compared when none are named.
var defaultPolicies = []string{"fifo", "srtf", "tiresias"}

// choices turns --policy and --set into the policies to compare.
func choices(policies, settings []string) ([]run.Choice, error) {
	if len(policies) == 0 {
		policies = defaultPolicies
	}
	var out []run.Choice
	for _, list := range policies {
		for _, text := range split(list) {
			c, err := run.ParseChoice(text)
			if err != nil {
				return nil, misused("--policy %w", err)
			}
			out = append(out, c)
		}
	}
	for _, s := range settings {
		if err := apply(out, s); err != nil {
			return nil, err
		}
	}
	for i, c := range out {
		if _, err := c.Make(); err != nil {
			return nil, misused("%w", err)
		}
		for _, other := range out[:i] {
			if other.String() == c.String() {
				return nil, misused("--policy: %s is named twice; variants differ in their settings, as in tiresias,tiresias(promote=2)", c)
			}
		}
	}
	return out, nil
}

// split divides a list at the commas that stand outside of parentheses.
func split(list string) []string {
	var out []string
	depth, from := 0, 0
	for i, r := range list {
		switch {
		case r == '(':
			depth++
		case r == ')':
			depth--
		case r == ',' && depth == 0:
			out = append(out, list[from:i])
			from = i + 1
		}
	}
	return append(out, list[from:])
}

// apply gives policy.param=value to the policies of that name, but for those
// that have a value of their own.
func apply(all []run.Choice, text string) error {
	target, value, ok := strings.Cut(text, "=")
	name, key, dotted := strings.Cut(target, ".")
	if !ok || !dotted {
		return misused("--set %s: write policy.param=value", text)
	}
	used := false
	var names []string
	for i := range all {
		c := &all[i]
		names = append(names, c.Policy)
		if c.Policy != name {
			continue
		}
		used = true
		own := false
		for _, s := range c.Settings {
			own = own || s.Name == key && len(all) > 1
		}
		if !own {
			c.Settings = append(c.Settings, run.Setting{Name: key, Value: value})
		}
	}
	if !used {
		return misused("--set %s: policy %s is not among those that are run (%s)%s", text, name, strings.Join(names, ", "), param.Near(name, names))
	}
	return nil
}
