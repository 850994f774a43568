package rundir

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// FuzzFolder reads files of a run with any text in them. A file that is read is written and
// read again as it was.
func FuzzFolder(f *testing.F) {
	for _, text := range []string{
		`{"job":"17","run":1,"tasks":[{"args":["sh"],"dir":"/"}],"env":["A=b"],"stop":"freeze"}`, `{"pid":5,"boot":"x","tasks":[{"pid":6,"start":7}]}`,
		`{"cause":"exited","exit":{"code":3,"signal":"SIGKILL"}}`, `{"kind":"end"}`, `{"throttle":1e9,"cpus":-1}`, `{}`, `null`, `[`, "{\"crc\":\"00000000\"}",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		for name, kind := range map[string]reflect.Type{
			RunFile: reflect.TypeFor[Run](), WantFile: reflect.TypeFor[Want](), LimitsFile: reflect.TypeFor[Limits](),
			StatusFile: reflect.TypeFor[Status](), ExitFile: reflect.TypeFor[Exit](),
		} {
			if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
				t.Fatal(err)
			}
			was, again := reflect.New(kind), reflect.New(kind)
			if ok, err := Read(dir, name, was.Interface()); err != nil || !ok {
				continue
			}
			if err := Write(dir, name, was.Interface()); err != nil {
				t.Fatalf("%s is read, and cannot be written: %v", name, err)
			}
			first, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if ok, err := Read(dir, name, again.Interface()); err != nil || !ok {
				t.Fatalf("%s was written, and cannot be read: %v\n%s", name, err, first)
			}
			if err := Write(dir, name, again.Interface()); err != nil {
				t.Fatal(err)
			}
			if second, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(first) != string(second) {
				t.Fatalf("%s was\n%s\nand is\n%s\n(%v)", name, first, second, err)
			}
		}
	})
}
