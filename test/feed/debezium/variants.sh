# What postgres.sh landed, in every form and in bad orders. Part of run.sh.

for engine in precise string double; do
  cdc_psql -c "CALL feed.judge('$engine')"
  while IFS='|' read -r what good; do
    verdict "$([ "$good" = t ] && echo 1 || echo 0)" "$engine: $what"
  done < <(cdc_value -c "SELECT * FROM feed.self_check($kills)")
done

if [ -n "$long" ]; then
  deliveries="in-order shuffled shuffled-twice cut middle replay"
  plan=$(for each in "precise env" "precise schema" "precise flat" "string env" "string flat" "double env" "double schema"; do
    for delivery in $deliveries; do echo "$each $delivery"; done; done)
else
  plan="precise env in-order
precise env shuffled
precise env shuffled-twice
precise env middle
precise schema shuffled-twice
precise flat cut
string env cut
string flat shuffled-twice
double env in-order
double schema shuffled-twice"
fi
while read -r each; do
  variant $each
done <<<"$plan"

# The connector tells a change of a key as a delete and a create, which do not
# know of each other; what the create does not carry is nowhere to be found.
# (It is found where the event has its old key: wal2json and pgoutput below, or
# with REPLICA IDENTITY FULL, which makes the create carry it.)
cdc_psql -c "SET client_min_messages = error" -c "CALL feed.new_targets('precise', 'env', 'row', '{moved}', '')" \
  -c "INSERT INTO feed.stage SELECT * FROM landing.precise_env WHERE topic = 'precise.shop.moved'"
answer=$(cdc_value -c "SELECT * FROM cdc_apply('feed.moved', 'feed.moved_events')" 2>&1 || true)
verdict "$(grep -q 'ERROR:  value of column "body" is unavailable for key (id)=(2)' <<<"$answer" && echo 1 || echo 0)" \
  "a key change that leaves a large value alone is refused: $(head -n 1 <<<"$answer")"
