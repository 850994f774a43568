package run

import (
	"reflect"
	"strings"
	"testing"
)

// TestParseChoice: what is read is written as it was, and what cannot be read
// says why.
func TestParseChoice(t *testing.T) {
	for text, want := range map[string]Choice{
		"fifo":               {Policy: "fifo"},
		" fifo(mode=easy) ":  {"fifo", []Setting{{Name: "mode", Value: "easy"}}},
		"t(limits=1,2,up=3)": {"t", []Setting{{Name: "limits", Value: "1,2"}, {Name: "up", Value: "3"}}},
		"t( a = 1 , 2 )":     {"t", []Setting{{Name: "a", Value: "1,2"}}},
	} {
		got, err := ParseChoice(text)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
		if again, err := ParseChoice(got.String()); err != nil || !reflect.DeepEqual(again, got) {
			t.Errorf("%q is written %q and read as %+v, %v", text, got, again, err)
		}
	}
	for text, want := range map[string]string{"fifo(mode=easy": "parenthesis", "fifo(easy)": "fifo(param=value)", "fifo()": "fifo(param=value)"} {
		if _, err := ParseChoice(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
