package sealed

import (
	"encoding/json"
	"slices"
	"testing"
)

// TestEveryByteCounts: an object that is sealed is JSON with the same fields, and any byte
// of it that is changed is found out, or belongs to the seal alone.
func TestEveryByteCounts(t *testing.T) {
	for _, text := range []string{`{}`, "{\n}\n", `{"a":1}`, "{\n \"a\": 1,\n \"b\": {\"c\": \"}\"}\n}\n", `{"a":{}}`} {
		whole := Seal([]byte(text))
		if is, err := Check(append(slices.Clone(whole), '\n')); !is || err != nil {
			t.Fatalf("%s: %v, %v", whole, is, err)
		}
		var was, now map[string]any
		if json.Unmarshal([]byte(text), &was) != nil || json.Unmarshal(whole, &now) != nil || len(now) != len(was)+1 {
			t.Errorf("%s becomes %s", text, whole)
		}
		for i := range whole {
			for bit := range 8 {
				b := slices.Clone(whole)
				b[i] ^= 1 << bit
				is, err := Check(b)
				inSeal := i >= len(whole)-length
				if is && err == nil && !(inSeal && sameDigits(b, whole)) || !is && !inSeal {
					t.Errorf("byte %d of %s is accepted changed: %s", i, whole, b)
				}
			}
		}
		if is, err := Check([]byte(text)); is || err != nil {
			t.Errorf("without a checksum: %v, %v", is, err)
		}
	}
}

// sameDigits tells whether two seals differ in the case of a digit alone.
func sameDigits(a, b []byte) bool {
	for i := range a {
		if a[i] != b[i] && a[i]^b[i] != 'a'^'A' {
			return false
		}
	}
	return true
}
