package run

import (
	"fmt"
	"strings"
)

// ParseChoice reads a policy with settings of its own, as tables name it:
// tiresias(limits=3600,36000,promote=2). A part without = goes on with the value
// before it. Whether there is such a policy, and such settings, is told by Make.
func ParseChoice(text string) (Choice, error) {
	text = strings.TrimSpace(text)
	name, inside, has := strings.Cut(text, "(")
	c := Choice{Policy: strings.TrimSpace(name)}
	if !has {
		return c, nil
	}
	inside, closed := strings.CutSuffix(inside, ")")
	if !closed {
		return c, fmt.Errorf("%s: the closing parenthesis is missing", text)
	}
	for part := range strings.SplitSeq(inside, ",") {
		key, value, set := strings.Cut(part, "=")
		switch n := len(c.Settings); {
		case set:
			c.Settings = append(c.Settings, Setting{Name: strings.TrimSpace(key), Value: strings.TrimSpace(value)})
		case n > 0:
			c.Settings[n-1].Value += "," + strings.TrimSpace(part)
		default:
			return c, fmt.Errorf("%s: write settings as %s(param=value)", text, c.Policy)
		}
	}
	return c, nil
}
