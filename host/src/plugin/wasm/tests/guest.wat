;; A guest that misbehaves on request: the first byte of a payload says how. Upper case in extract-keys, lower case in
;; compute. Any other payload is its own message id and gives one row of target "t" with the payload in column "id".
;;
;;   L loop   T trap   M take all memory   D recurse   P say why, then trap   W log for ever   Z be slow
;;   X what the test says   G take all tables   H an id of a gigabyte   K a gigabyte of results
;;   N one result too few   U an id that is no UTF-8   B a list out of bounds
;;   s shape out of range   v a value too few   o an answer without end   c a hundred changes   j a time that is none
(module
  (import "tidegate:plugin/log@0.1.0" "write" (func $log (param i32 i32 i32)))
  ;;IMPORTS
  (memory (export "memory") PAGES)
  (table $table 1 funcref)
  ;;START
  (global $top (mut i32) (i32.const 4096))
  (global $batch (mut i32) (i32.const 0))
  (data (i32.const 32) "t")
  (data (i32.const 33) "id")
  (data (i32.const 35) "boom\0aat line 7")
  (data (i32.const 60) "\ff\fe")
  (data (i32.const 64) "DESCRIPTION")

  (func $alloc (param $size i32) (result i32)
    (local $at i32)
    (local.set $at (i32.and (i32.add (global.get $top) (i32.const 7)) (i32.const -8)))
    (global.set $top (i32.add (local.get $at) (local.get $size)))
    (block $enough
      (loop $more
        (br_if $enough (i32.le_u (global.get $top) (i32.mul (memory.size) (i32.const 65536))))
        (br_if $more (i32.ne (memory.grow (i32.const 16)) (i32.const -1)))
        unreachable))
    (local.get $at))
  (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (call $alloc (local.get 3)))

  (func $recurse (param i32) (result i32)
    (i32.add (call $recurse (i32.add (local.get 0) (i32.const 1))) (local.get 0)))

  (func $spin (param $times i32)
    (loop $again
      (local.set $times (i32.sub (local.get $times) (i32.const 1)))
      (br_if $again (local.get $times))))

  ;; Does what the letter says.
  (func $misbehave (param $letter i32)
    (local $count i32)
    (if (i32.eq (local.get $letter) (i32.const 88 (; X ;))) (then
      ;;EXTRACT
      ))
    (if (i32.eq (local.get $letter) (i32.const 76 (; L ;))) (then (loop $for_ever (br $for_ever))))
    (if (i32.eq (local.get $letter) (i32.const 84 (; T ;))) (then unreachable))
    (if (i32.eq (local.get $letter) (i32.const 77 (; M ;)))
      (then (loop $more (drop (memory.grow (i32.const 1))) (br $more))))
    (if (i32.eq (local.get $letter) (i32.const 71 (; G ;)))
      (then (loop $more (drop (table.grow $table (ref.null func) (i32.const 1000))) (br $more))))
    (if (i32.eq (local.get $letter) (i32.const 68 (; D ;))) (then (drop (call $recurse (i32.const 0)))))
    (if (i32.eq (local.get $letter) (i32.const 80 (; P ;)))
      (then (call $log (i32.const 3) (i32.const 35) (i32.const 14)) unreachable))
    (if (i32.eq (local.get $letter) (i32.const 87 (; W ;)))
      (then (loop $again (call $log (i32.const 1) (i32.const 35) (i32.const 14)) (br $again))))
    (if (i32.eq (local.get $letter) (i32.const 90 (; Z ;))) (then (call $spin (i32.const 100000000)))))

  ;; The first byte of a message's payload, 0 where there is none.
  (func $letter (param $message i32) (result i32)
    (if (result i32) (i32.load offset=28 (local.get $message))
      (then (i32.load8_u (i32.load offset=24 (local.get $message))))
      (else (i32.const 0))))

  (func (export "tidegate:plugin/processor@0.1.0#describe") (result i32)
    ;;DESCRIBE
    (i32.store (i32.const 0) (i32.const 64))
    (i32.store (i32.const 4) (i32.const LENGTH))
    (i32.const 0))

  (func (export "tidegate:plugin/processor@0.1.0#configure") (param i32 i32) (result i32)
    (local $count i32)
    ;;CONFIGURE
    (i32.store (i32.const 0) (i32.const 0))
    (i32.const 0))

  ;; A message takes 40 bytes, a key-result 64.
  (func (export "tidegate:plugin/processor@0.1.0#extract-keys") (param $batch i32) (param $count i32) (result i32)
    (local $results i32) (local $result i32) (local $message i32) (local $left i32) (local $letter i32)
    (local $fewer i32)
    (global.set $batch (local.get $batch))
    (local.set $results (call $alloc (i32.mul (local.get $count) (i32.const 64))))
    (local.set $result (local.get $results))
    (local.set $message (local.get $batch))
    (local.set $left (local.get $count))
    (block $done
      (loop $next
        (br_if $done (i32.eqz (local.get $left)))
        (local.set $letter (call $letter (local.get $message)))
        (call $misbehave (local.get $letter))
        (if (i32.eq (local.get $letter) (i32.const 78 (; N ;))) (then (local.set $fewer (i32.const 1))))
        (i64.store (local.get $result) (i64.const 0))
        (i32.store offset=8 (local.get $result) (i32.load offset=24 (local.get $message)))
        (i32.store offset=12 (local.get $result) (i32.load offset=28 (local.get $message)))
        (if (i32.eq (local.get $letter) (i32.const 85 (; U ;)))
          (then (i32.store offset=8 (local.get $result) (i32.const 60))
            (i32.store offset=12 (local.get $result) (i32.const 2))))
        (if (i32.eq (local.get $letter) (i32.const 72 (; H ;)))
          (then (i32.store offset=12 (local.get $result) (i32.const 0x40000000))))
        (if (i32.eq (local.get $letter) (i32.const 75 (; K ;)))
          (then (local.set $fewer (i32.sub (local.get $count) (i32.const 0x1000000)))))
        (if (i32.eq (local.get $letter) (i32.const 66 (; B ;)))
          (then (i32.store offset=8 (local.get $result) (i32.const 0x7fffff00))))
        (i32.store offset=16 (local.get $result) (i32.const 32))
        (i32.store offset=20 (local.get $result) (i32.const 1))
        (i64.store offset=24 (local.get $result) (i64.const 0))
        (i64.store offset=48 (local.get $result) (i64.const 0))
        (local.set $message (i32.add (local.get $message) (i32.const 40)))
        (local.set $result (i32.add (local.get $result) (i32.const 64)))
        (local.set $left (i32.sub (local.get $left) (i32.const 1)))
        (br $next)))
    (i32.store (i32.const 0) (local.get $results))
    (i32.store (i32.const 4) (i32.sub (local.get $count) (local.get $fewer)))
    (i32.const 0))

  ;; An accepted takes 32 bytes, a compute-result 20, a change 12, a value 24, a shape 20.
  (func (export "tidegate:plugin/processor@0.1.0#compute") (param $accepted i32) (param $count i32) (result i32)
    (local $results i32) (local $result i32) (local $left i32) (local $letter i32) (local $message i32)
    (local $change i32) (local $value i32) (local $shape i32) (local $fewer i32) (local $copy i32)
    (local.set $results (call $alloc (i32.mul (local.get $count) (i32.const 20))))
    (local.set $result (local.get $results))
    (local.set $left (local.get $count))
    (block $done
      (loop $next
        (br_if $done (i32.eqz (local.get $left)))
        (local.set $message
          (i32.add (global.get $batch) (i32.mul (i32.load (local.get $accepted)) (i32.const 40))))
        (local.set $letter (call $letter (local.get $message)))
        (call $misbehave (i32.sub (local.get $letter) (i32.const 32)))
        (if (i32.eq (local.get $letter) (i32.const 110 (; n ;))) (then (local.set $fewer (i32.const 1))))
        (local.set $value (call $alloc (i32.const 24)))
        (i64.store (local.get $value) (i64.const 5))
        (i32.store offset=8 (local.get $value) (i32.load offset=24 (local.get $message)))
        (i32.store offset=12 (local.get $value) (i32.load offset=28 (local.get $message)))
        (if (i32.eq (local.get $letter) (i32.const 111 (; o ;)))
          (then (i32.store offset=8 (local.get $value) (i32.const 0))
            (i32.store offset=12 (local.get $value) (i32.const 131072))))
        (if (i32.eq (local.get $letter) (i32.const 106 (; j ;)))
          (then (i64.store (local.get $value) (i64.const 8))
            (i64.store offset=8 (local.get $value) (i64.const 0))
            (i32.store offset=16 (local.get $value) (i32.const 32))
            (i32.store offset=20 (local.get $value) (i32.const 1))))
        (local.set $change (call $alloc (i32.const 1200)))
        (local.set $copy (i32.const 100))
        (loop $copies
          (local.set $copy (i32.sub (local.get $copy) (i32.const 1)))
          (i32.store (i32.add (local.get $change) (i32.mul (local.get $copy) (i32.const 12)))
            (i32.mul (i32.eq (local.get $letter) (i32.const 115 (; s ;))) (i32.const 7)))
          (i32.store offset=4 (i32.add (local.get $change) (i32.mul (local.get $copy) (i32.const 12)))
            (local.get $value))
          (i32.store offset=8 (i32.add (local.get $change) (i32.mul (local.get $copy) (i32.const 12)))
            (i32.ne (local.get $letter) (i32.const 118 (; v ;))))
          (br_if $copies (local.get $copy)))
        (i32.store (local.get $result) (i32.const 0))
        (i32.store offset=4 (local.get $result) (local.get $change))
        (i32.store offset=8 (local.get $result)
          (select (i32.const 100) (i32.const 1) (i32.eq (local.get $letter) (i32.const 99 (; c ;)))))
        (local.set $accepted (i32.add (local.get $accepted) (i32.const 32)))
        (local.set $result (i32.add (local.get $result) (i32.const 20)))
        (local.set $left (i32.sub (local.get $left) (i32.const 1)))
        (br $next)))
    ;; One shape: upsert, "t", ["id"].
    (local.set $shape (call $alloc (i32.const 28)))
    (i32.store (local.get $shape) (i32.const 0))
    (i32.store offset=4 (local.get $shape) (i32.const 32))
    (i32.store offset=8 (local.get $shape) (i32.const 1))
    (i32.store offset=12 (local.get $shape) (i32.add (local.get $shape) (i32.const 20)))
    (i32.store offset=16 (local.get $shape) (i32.const 1))
    (i32.store offset=20 (local.get $shape) (i32.const 33))
    (i32.store offset=24 (local.get $shape) (i32.const 2))
    (i32.store (i32.const 0) (local.get $shape))
    (i32.store (i32.const 4) (i32.const 1))
    (i32.store (i32.const 8) (local.get $results))
    (i32.store (i32.const 12) (i32.sub (local.get $count) (local.get $fewer)))
    (i32.const 0)))
