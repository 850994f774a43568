package deploy

import (
	"strings"
	"testing"
)

// TestExpand: parts are left out, repeated, and may be in each other; what stands for nothing
// is an error.
func TestExpand(t *testing.T) {
	of := func(name string) scope { return scope{holes: map[string]string{"Name": name}} }
	s := scope{holes: map[string]string{"Name": "top", "Other": "x"}, parts: map[string][]scope{"None": nil, "Each": {of("a"), of("b")}}}
	s.parts["One"] = []scope{s}
	for text, want := range map[string]string{
		"a [[ .Name ]] b [[ .Other ]]":                                                   "a top b x",
		"[[- if .None ]]\n[[ .Nothing ]]\n[[ end -]]\nc":                                 "c",
		"[[- range .Each ]]\n- [[ .Name ]]\n[[- end ]]\n[[ .Name ]]":                     "- a\n- b\ntop",
		"[[- if .One ]]\n1\n[[- range .Each ]]\n- [[ .Name ]]\n[[- end ]]\n[[ end -]]\n": "1\n- a\n- b\n",
		"[[ .Nothing ]]": "!", "[[ .Name": "!", "[[- if .Nothing ]]\n[[ end ]]\n": "!", "[[- if .One ]]\n": "!", "a\n[[ end ]]\n": "!",
	} {
		var out strings.Builder
		err := s.expand(strings.SplitAfter(text, "\n"), &out)
		if want == "!" && err == nil || want != "!" && (err != nil || out.String() != want) {
			t.Errorf("%q: %q, %v", text, out.String(), err)
		}
	}
}
