// Package label is what tells nodes apart beside their hardware, and what jobs say
// about it.
//
// Nouns:
//   - A Label is a key and a value that a node has, such as zone=a.
//   - A Taint is what a node repels jobs by, unless they tolerate it.
//   - A Where is a condition on labels: alternatives, of each of which all
//     requirements must hold.
//   - Tolerations are the taints that a job does not mind.
//
// The meaning is that of Kubernetes: node affinity that is required when a job
// is scheduled and ignored while it runs, and taints and tolerations. The
// package reads and writes both in a short notation, of which it knows one
// canonical form, so that equal conditions are equal texts.
package label

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Label is a key and a value that a node has.
type Label struct{ Key, Value string }

// String writes the label as key=value.
func (l Label) String() string { return l.Key + "=" + l.Value }

// ParseLabel reads key=value; the value may be empty.
func ParseLabel(text string) (Label, error) {
	key, value, ok := strings.Cut(text, "=")
	l := Label{strings.TrimSpace(key), strings.TrimSpace(value)}
	if !ok {
		return Label{}, fmt.Errorf("label %q: write key=value", text)
	}
	return l, l.Check()
}

// Check says what is wrong with a label, or nil.
func (l Label) Check() error {
	switch {
	case !goodKey(l.Key):
		return fmt.Errorf("label %q: %s", l.String(), keyRule)
	case !goodValue(l.Value):
		return fmt.Errorf("label %q: %s", l.String(), valueRule)
	}
	return nil
}

// Sort puts labels into the order of their keys. It fails on a key that is there twice.
func Sort(labels []Label) error {
	slices.SortFunc(labels, func(a, b Label) int { return cmp.Compare(a.Key, b.Key) })
	for i := 1; i < len(labels); i++ {
		if labels[i].Key == labels[i-1].Key {
			return fmt.Errorf("label %s is given twice", labels[i].Key)
		}
	}
	return nil
}

// Effect is what a taint does to jobs that do not tolerate it.
type Effect uint8

// The effects. NoExecute repels new jobs, as NoSchedule does; it does not stop those
// that run. PreferNoSchedule is kept and written, but nobody is repelled by it.
const (
	NoSchedule Effect = iota + 1
	PreferNoSchedule
	NoExecute
)

var effects = []string{"", "NoSchedule", "PreferNoSchedule", "NoExecute"}

func (e Effect) String() string { return effects[e] }

// Taint is what a node repels jobs by.
type Taint struct {
	Key, Value string
	Effect     Effect
}

// String writes the taint as key=value:effect, or key:effect when it has no value.
func (t Taint) String() string {
	if t.Value == "" {
		return t.Key + ":" + t.Effect.String()
	}
	return t.Key + "=" + t.Value + ":" + t.Effect.String()
}

// Repels tells whether a job that does not tolerate the taint is kept off the node.
func (t Taint) Repels() bool { return t.Effect == NoSchedule || t.Effect == NoExecute }

// ParseTaint reads key=value:effect or key:effect.
func ParseTaint(text string) (Taint, error) {
	what, effect, ok := strings.Cut(text, ":")
	key, value, _ := strings.Cut(what, "=")
	t := Taint{Key: strings.TrimSpace(key), Value: strings.TrimSpace(value), Effect: effectOf(strings.TrimSpace(effect))}
	switch {
	case !ok || t.Effect == 0:
		return Taint{}, fmt.Errorf("taint %q: write key=value:effect with the effect NoSchedule, NoExecute or PreferNoSchedule", text)
	case !goodKey(t.Key):
		return Taint{}, fmt.Errorf("taint %q: %s", text, keyRule)
	case !goodValue(t.Value):
		return Taint{}, fmt.Errorf("taint %q: %s", text, valueRule)
	}
	return t, nil
}

// effectOf is the effect of a name, or 0.
func effectOf(name string) Effect {
	for e := NoSchedule; e <= NoExecute; e++ {
		if effects[e] == name {
			return e
		}
	}
	return 0
}

// Toleration is a taint, or several, that a job does not mind. An empty Key stands
// for every key, an Effect of 0 for every effect.
type Toleration struct {
	Key    string
	Equal  bool // of taints with the Value alone; else whatever their value is
	Value  string
	Effect Effect
}

// String writes the toleration as ParseTolerations reads it.
func (t Toleration) String() string {
	out := cmp.Or(t.Key, "*")
	if t.Equal {
		out += "=" + t.Value
	}
	if t.Effect != 0 {
		out += ":" + t.Effect.String()
	}
	return out
}

// Tolerates tells whether the taint is one that the job does not mind.
func (t Toleration) Tolerates(x Taint) bool {
	return (t.Key == "" || t.Key == x.Key) && (!t.Equal || t.Value == x.Value) && (t.Effect == 0 || t.Effect == x.Effect)
}

// Tolerations are what a job does not mind.
type Tolerations []Toleration

// maxTolerations bounds what one job tolerates.
const maxTolerations = 256

// ParseTolerations reads tolerations with commas between them. Each is key=value,
// key for any value, or * for any taint; behind it may stand a colon and the effect.
func ParseTolerations(text string) (Tolerations, error) {
	var out Tolerations
	for one := range strings.SplitSeq(text, ",") {
		if one = strings.TrimSpace(one); one == "" {
			continue
		}
		t, err := parseToleration(one)
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	slices.SortFunc(out, func(a, b Toleration) int { return cmp.Compare(a.String(), b.String()) })
	if out = slices.Compact(out); len(out) > maxTolerations {
		return nil, fmt.Errorf("%d tolerations, at most %d are allowed", len(out), maxTolerations)
	}
	return out, nil
}

func parseToleration(text string) (t Toleration, err error) {
	what, effect, told := strings.Cut(text, ":")
	t.Key, t.Value, t.Equal = strings.Cut(what, "=")
	t.Key, t.Value, t.Effect = strings.TrimSpace(t.Key), strings.TrimSpace(t.Value), effectOf(strings.TrimSpace(effect))
	switch {
	case told && t.Effect == 0:
		return t, fmt.Errorf("toleration %q: %q is no effect: write NoSchedule, NoExecute or PreferNoSchedule", text, strings.TrimSpace(effect))
	case t.Key == "*" && !t.Equal:
		t.Key = ""
	case !goodKey(t.Key):
		return t, fmt.Errorf("toleration %q: %s", text, keyRule)
	case !goodValue(t.Value):
		return t, fmt.Errorf("toleration %q: %s", text, valueRule)
	}
	return t, nil
}

// String writes the canonical form.
func (t Tolerations) String() string {
	parts := make([]string, len(t))
	for i := range t {
		parts[i] = t[i].String()
	}
	return strings.Join(parts, ",")
}

// Tolerate tells whether none of the taints of a node repels the job.
func (t Tolerations) Tolerate(taints []Taint) bool {
	return !slices.ContainsFunc(taints, func(x Taint) bool {
		return x.Repels() && !slices.ContainsFunc(t, func(one Toleration) bool { return one.Tolerates(x) })
	})
}

// The rules for keys and values.
const (
	keyRule   = "a key has letters, digits and ._-/, at most 317, and begins and ends with a letter or digit"
	valueRule = "a value has letters, digits and ._-, at most 63"
)

func goodKey(key string) bool {
	return key != "" && len(key) <= 317 && alphanumeric(key[0]) && alphanumeric(key[len(key)-1]) && prefix(key, true) == len(key)
}

func goodValue(value string) bool { return len(value) <= 63 && prefix(value, false) == len(value) }

// prefix is the length of the longest prefix that may stand in a key, or in a value.
func prefix(text string, key bool) int {
	n := 0
	for n < len(text) && (alphanumeric(text[n]) || text[n] == '.' || text[n] == '_' || text[n] == '-' || key && text[n] == '/') {
		n++
	}
	return n
}

func alphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}
