package api

import (
	"encoding/json"
	"reflect"
	"testing"
)

// Quantities are read from numbers and from text, escaped or not; null changes
// nothing, and the text "null" is none of them.
func TestQuantities(t *testing.T) {
	type quantities struct {
		S Seconds
		B Bytes
		R Range
		T Tasks
	}
	was := quantities{1, 2, Fixed(3), Tasks{N: 4}}
	for text, want := range map[string]quantities{
		`{"S":90.5,"B":1024,"R":2,"T":3}`:                                      {90.5, 1024, Fixed(2), Tasks{N: 3}},
		`{"S":"1h30m","B":"2GiB","R":"1-4:2","T":"per-gpu"}`:                   {5400, 2 << 30, Range{1, 4, 2}, Tasks{PerGPU: true}},
		`{"S":"\u0039\u0030","B":"1\u004b","R":"\u0031-4","T":"per\u002dgpu"}`: {90, 1 << 10, Range{1, 4, 4}, Tasks{PerGPU: true}},
		`{"S":null,"B":null,"R":null,"T":null}`:                                was,
		` { "S" : 1e2 , "R" : "0.5" } `:                                        {100, 2, Fixed(0.5), Tasks{N: 4}},
	} {
		have := was
		if err := json.Unmarshal([]byte(text), &have); err != nil || !reflect.DeepEqual(have, want) {
			t.Errorf("%s is %+v, %v", text, have, err)
		}
	}
	for _, value := range []string{`"null"`, `true`, `[1]`, `{}`, `""`, `"x"`, `"\u0000"`, `"1 2"`} {
		for _, field := range []string{"S", "B", "R", "T"} {
			have := was
			if err := json.Unmarshal([]byte(`{"`+field+`":`+value+`}`), &have); err == nil {
				t.Errorf("%s of %s is %+v", field, value, have)
			}
		}
	}
}
