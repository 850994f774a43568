package param

import (
	"fmt"
	"strings"
)

// Call reads name(key=value,...), or a name alone. settings are key=value, with spaces at their ends taken off.
func Call(text string) (name string, settings []string, err error) {
	name, inside, some := strings.Cut(strings.TrimSpace(text), "(")
	if !some {
		return name, nil, nil
	}
	inside, closed := strings.CutSuffix(inside, ")")
	if !closed {
		return "", nil, fmt.Errorf("%q lacks a closing parenthesis", text)
	}
	for setting := range strings.SplitSeq(inside, ",") {
		settings = append(settings, strings.TrimSpace(setting))
	}
	return name, settings, nil
}

// SetAll sets parameters, each written key=value.
func (s Set) SetAll(settings []string) error {
	for _, setting := range settings {
		key, value, _ := strings.Cut(setting, "=")
		if err := s.Set(strings.TrimSpace(key), strings.TrimSpace(value)); err != nil {
			return err
		}
	}
	return nil
}
