package deploy

import (
	"fmt"
	"strings"
)

// text/template finds methods by their names. So a program that links it keeps every exported
// method of every type that it has, which for the client libraries of Kubernetes is 20 MB.
// The template here needs little of it: holes, and parts that are left out or repeated. Their
// marks are those of text/template, on lines of their own.

// scope is what the names of a template stand for.
type scope struct {
	holes map[string]string
	parts map[string][]scope // a part is written once for each of them, which it sees instead
}

// expand writes lines of a template. It fails on names that stand for nothing, and on parts
// that do not end.
func (s *scope) expand(lines []string, out *strings.Builder) error {
	for at := 0; at < len(lines); at++ {
		name, opens, closes := part(lines[at])
		switch {
		case closes:
			return fmt.Errorf("template: an end without a beginning, before %q", strings.Join(lines[at+1:], ""))
		case opens:
			body := lines[at+1:]
			size := length(body)
			scopes, known := s.parts[name]
			if size == len(body) || !known {
				return fmt.Errorf("template: part %s has no end, or stands for nothing", name)
			}
			for i := range scopes {
				if err := scopes[i].expand(body[:size], out); err != nil {
					return err
				}
			}
			at += size + 1
		default:
			if err := s.line(lines[at], out); err != nil {
				return err
			}
		}
	}
	return nil
}

// length counts the lines of a part up to its end.
func length(lines []string) int {
	depth := 0
	for i, line := range lines {
		_, opens, closes := part(line)
		switch {
		case opens:
			depth++
		case closes && depth == 0:
			return i
		case closes:
			depth--
		}
	}
	return len(lines)
}

// part reads a line on which a part begins or ends.
func part(line string) (name string, opens, closes bool) {
	inside, marked := strings.CutPrefix(strings.TrimSpace(line), "[[")
	inside, ended := strings.CutSuffix(inside, "]]")
	words := strings.Fields(strings.Trim(inside, "- "))
	switch {
	case !marked || !ended || len(words) == 0:
	case words[0] == "end":
		return "", false, true
	case len(words) == 2 && (words[0] == "if" || words[0] == "range"):
		return strings.TrimPrefix(words[1], "."), true, false
	}
	return "", false, false
}

// line writes a line, with its holes filled.
func (s *scope) line(line string, out *strings.Builder) error {
	for {
		before, rest, found := strings.Cut(line, "[[ .")
		out.WriteString(before)
		if !found {
			return nil
		}
		name, after, ended := strings.Cut(rest, " ]]")
		value, known := s.holes[name]
		if !ended || !known {
			return fmt.Errorf("template: %q stands for nothing", name)
		}
		out.WriteString(value)
		line = after
	}
}
